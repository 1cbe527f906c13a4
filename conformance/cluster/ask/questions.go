package ask

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Routes.
const (
	chatPath = "/v1/chat/completions"
	textPath = "/v1/completions"
)

// anyModel is a name that every server of Bulkhead takes for its model.
const anyModel = "bulkhead"

// chat is a greedy question to the chat route.
func chat(name string, most int, turns ...string) Question {
	messages := []any{map[string]any{"role": "system", "content": "Answer from what you are told."}}
	for i, text := range turns {
		messages = append(messages, map[string]any{"role": [...]string{"user", "assistant"}[i%2], "content": text})
	}
	return Question{Name: name, Path: chatPath, Body: map[string]any{"model": anyModel, "messages": messages, "temperature": 0, "max_tokens": most}}
}

// text is a greedy question to the completions route.
func text(name string, most int, prompt any) Question {
	return Question{Name: name, Path: textPath, Body: map[string]any{"model": anyModel, "prompt": prompt, "temperature": 0, "max_tokens": most}}
}

// filled is a text of about so many words that ends in a question whose answer stands at its beginning.
func filled(words, number int) string {
	const sentence = "The sky over the town was grey and the river was calm. "
	return fmt.Sprintf("The access code of Harbor is %dQK%dM. ", number%10, number/10%10) +
		strings.Repeat(sentence, words/11) + "What is the access code of Harbor?"
}

// ids is a prompt of token ids. They are ordinary ones in every vocabulary that is used here.
func ids(n, seed int) []int {
	prompt := make([]int, n)
	for i := range prompt {
		prompt[i] = 300 + (i*7919+seed*131+17)%200
	}
	return prompt
}

// Suite is what two servers are compared by: every kind of answer, each also streamed, and prompts whose lengths lie round
// the ends of pages, down to a single token, of which nothing is handed over.
func Suite() []Question {
	var all []Question
	chats := []Question{
		chat("hello", 12, "Hello there"),
		chat("a fact", 12, filled(0, 57)),
		chat("a fact, 200 words off", 12, filled(200, 38)),
		chat("a fact, 600 words off", 12, filled(600, 91)),
		chat("three turns", 12, filled(60, 24), "4QK2M", "And the sky over the town?"),
		chat("other scripts", 12, "Grüße aus Łódź, 東京 and Αθήνα: 🌊🏔️. "+filled(20, 65)),
	}
	for _, q := range chats {
		all = append(all, q,
			q.With("three answers with log-probabilities", "n", 3).With("", "logprobs", true).With("", "top_logprobs", 5),
			q.With("48 tokens, whatever they are", "ignore_eos", true).With("", "max_tokens", 48),
			q.With("a stop string", "stop", []string{"K2", "e"}).With("", "ignore_eos", true),
			q.With("sampled with a seed", "temperature", 0.9).With("", "seed", 7).With("", "top_p", 0.9).With("", "logprobs", true),
			q.With("penalties and a bias", "frequency_penalty", 0.7).With("", "presence_penalty", 0.3).With("", "logit_bias", map[string]any{"310": 2}))
	}
	for _, n := range []int{1, 2, 15, 16, 17, 31, 32, 33, 34, 63, 64, 65, 66, 127, 128, 129, 130, 257, 513} {
		all = append(all, text(fmt.Sprintf("%d token ids", n), 8, ids(n, n)).With("log-probabilities", "logprobs", 3).With("", "ignore_eos", true))
	}
	all = append(all,
		text("echo", 6, "The river").With("", "echo", true),
		text("two prompts, two answers each", 6, []string{"The river", filled(40, 3)}).With("", "n", 2),
		text("a stop token", 16, ids(40, 5)).With("", "stop_token_ids", []int{310, 311, 312, 313}))
	for _, q := range all {
		all = append(all, q.Streamed())
	}
	return append(all, refusals()...)
}

// refusals are questions that no worker may hear of.
func refusals() []Question {
	q := chat("refused", 8, "Hello there")
	return []Question{
		q.With("over the window", "max_tokens", 1<<30),
		q.With("a prompt over the window", "messages", []any{map[string]any{"role": "user", "content": strings.Repeat("word ", 60_000)}}),
		q.With("out of range", "temperature", 3), q.With("another model", "model", "gpt-4o"),
		q.With("a control field", "bootstrap_room", 7), q.With("another control field", "rid", "mine"),
		q.With("an unknown field", "temprature", 0), q.With("not yet", "tools", []any{map[string]any{"type": "function", "function": map[string]any{"name": "f"}}}),
		q.With("no messages", "messages", []any{}), q.With("a wrong type", "max_tokens", "eight"),
		text("refused, a token that is none", 8, []int{1 << 30}), text("refused, an empty prompt", 8, []int{}),
		q.With("streamed, over the window", "max_tokens", 1<<30).Streamed(),
	}
}

// Few is a small set for a model that takes its time.
func Few() []Question {
	all := []Question{
		chat("hello", 24, "Hello there"),
		chat("a fact, 120 words off", 24, filled(120, 57)).With("log-probabilities", "logprobs", true).With("", "top_logprobs", 3),
		text("33 token ids", 16, ids(33, 1)).With("log-probabilities", "logprobs", 2),
		text("two answers", 16, "The river runs").With("", "n", 2),
	}
	for _, q := range all {
		all = append(all, q.Streamed())
	}
	return all
}

// Load is n questions of mixed lengths, of prompts (up to some hundred words, some with beginnings in common) and of answers,
// some streamed, some with log-probabilities, drawn from rng.
func Load(rng *rand.Rand, n int) []Question {
	var all []Question
	for i := range n {
		words := []int{0, 10, 60, 150, 300, 500}[rng.IntN(6)]
		most := 4 + rng.IntN(60)
		var q Question
		switch rng.IntN(4) {
		case 0:
			q = text(fmt.Sprintf("load %d, ids", i), most, ids(1+rng.IntN(400), rng.IntN(1000)))
		case 1:
			q = text(fmt.Sprintf("load %d, two answers", i), most, filled(words, rng.IntN(100))).With("", "n", 2)
		default:
			q = chat(fmt.Sprintf("load %d, %d words", i, words), most, filled(words, rng.IntN(100)))
		}
		q = q.With("", "ignore_eos", true)
		if rng.IntN(2) == 0 && q.Path == chatPath {
			q = q.With("", "logprobs", true)
		}
		if rng.IntN(5) > 1 {
			q = q.Streamed()
		}
		all = append(all, q)
	}
	return all
}
