package gateway

import (
	"errors"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// delivery is hop 9, gateway out: the events of all choices become an answer, as a whole or as it comes.
//
// Nothing is written before the first token is there. So whatever fails until then, a handoff that was not proven
// included, is an HTTP status; what fails later is the last event of the stream.
type delivery struct {
	*submission
	g       *Gateway
	shape   shape
	choices []*choice
	last    []time.Time // when each choice had its last token
}

// shape makes the bodies of one kind of answer.
type shape interface {
	whole(choices []*choice, u openai.Usage) any
	open(c *choice) any // the first event of a choice; nil: none
	part(c *choice, d delta) any
	finish(c *choice, reason string) any
	usage(u openai.Usage) any // the last event
}

// deliver sees a submission to its end. Whatever happens, every choice has ended or been left when it returns.
func (g *Gateway) deliver(s *submission, sh shape) *bulkhead.Refusal {
	d := &delivery{submission: s, g: g, shape: sh, last: make([]time.Time, len(s.streams))}
	for i, stream := range s.streams {
		c := newChoice(g.cfg.Text, i, s.gen.N, s.admission.choices[i].Request(), s.gen.Stop, stream.Leave)
		if s.echo != nil {
			c.echo = s.echo[c.prompt]
		}
		d.choices = append(d.choices, c)
	}
	ref, err := d.run()
	d.count()
	if ref == nil && err == nil {
		err = d.close()
	}
	if ref != nil || err != nil {
		s.leave()
	}
	s.row.failed(err)
	return ref
}

// run takes events until every choice has ended.
func (d *delivery) run() (*bulkhead.Refusal, error) {
	next, end := d.next(d.r.Context())
	defer end()
	for open := len(d.choices); open > 0; {
		e, ok := next()
		if !ok && d.r.Context().Err() != nil {
			return nil, errLeft
		} else if !ok {
			return internal(), nil
		}
		c := d.choices[e.choice]
		d.observe(c, e.Event)
		part, ref := c.take(e.Event)
		if ref != nil {
			return ref, nil
		}
		if err := d.pass(c, part); err != nil {
			return nil, err
		}
		if c.finished {
			open--
		}
	}
	return nil, nil
}

// pass sends what an event brought, or keeps it for the whole answer.
func (d *delivery) pass(c *choice, part delta) error {
	if !d.gen.Stream {
		c.logprobs = append(c.logprobs, part.logprobs...)
		return nil
	}
	if d.events == nil {
		d.stream()
	}
	var out []any
	if !c.begun {
		c.begun = true
		if first := d.shape.open(c); first != nil {
			out = append(out, first)
		}
	}
	if !part.empty() {
		out = append(out, d.shape.part(c, part))
	}
	if part.finish != "" {
		out = append(out, d.shape.finish(c, part.finish))
	}
	for _, v := range out {
		if err := d.events.Send(v); err != nil {
			return errors.Join(errLeft, err)
		}
	}
	return nil
}

// close writes the end of a stream, or the whole answer.
func (d *delivery) close() error {
	u := d.total()
	if !d.gen.Stream {
		return d.json(200, d.shape.whole(d.choices, u))
	}
	if d.gen.IncludeUsage {
		if err := d.events.Send(d.shape.usage(u)); err != nil {
			return err
		}
	}
	return d.events.Done()
}

// total is the usage. A prompt counts once, however many choices answer it.
func (d *delivery) total() openai.Usage {
	var prompt, cached, completion bulkhead.Tokens
	for i, c := range d.choices {
		completion += c.tokens
		if i%d.gen.N == 0 {
			prompt += bulkhead.Tokens(len(c.req.Prompt))
			cached += c.cached
		}
	}
	return openai.NewUsage(int(prompt), int(cached), int(completion))
}

// count notes for the row what was sent so far, also where it did not end well.
func (d *delivery) count() {
	u := d.total()
	d.row.Cached = bulkhead.Tokens(u.PromptTokensDetails.CachedTokens)
	d.row.Completion = bulkhead.Tokens(u.CompletionTokens)
	d.row.Choices = len(d.choices)
}

// observe takes times and counts violations. What exactly went wrong in the workers is in their log, under this id.
func (d *delivery) observe(c *choice, e bulkhead.Event) {
	now := time.Now()
	if e.End != nil {
		d.g.countViolation(e.End)
		return
	}
	if d.row.FirstToken == 0 {
		d.row.FirstToken = now.Sub(d.start)
		d.g.metrics.firstToken.Observe(d.row.FirstToken.Seconds())
	}
	if last := d.last[c.index]; !last.IsZero() {
		d.g.metrics.interToken.Observe(now.Sub(last).Seconds())
	}
	d.last[c.index] = now
}

func (g *Gateway) countViolation(end *bulkhead.End) {
	if end.Reason != bulkhead.Violated {
		return
	}
	part := "unknown"
	var v *bulkhead.Violation
	if errors.As(end.Err, &v) {
		part = string(v.Part)
	}
	g.metrics.violations.WithLabelValues(part).Inc()
}
