package bulkhead

import (
	"fmt"
	"time"
)

// Limits are what one pair of workers and its gateway, or one worker of a pair, hold to. Each is enforced where it is named; how they relate is
// checked here, at start and again whenever one of them changes.
type Limits struct {
	Window      Tokens // what clients are told: prompt plus answer
	PrefillPool Tokens // slots of the prefill worker's pool
	DecodePool  Tokens // slots of the decode worker's pool
	ModelWindow Tokens // what the model was trained for
	PageTokens  int    // slots of a page

	Queue          int           // requests that wait in a worker, all tenants together
	QueueTenant    int           // requests of one tenant that wait in a worker
	Running        int           // sequences that decode at once
	Chunk          Tokens        // prompt tokens that prefill computes in one step
	DrainTimeout   time.Duration // how long running requests have after SIGTERM
	RequestTimeout time.Duration // deadline of a request that names none; 0: none
	HandoffTimeout time.Duration // how long prefill keeps computed pages that no decode worker has asked for; 0: the worker's default

	Role Role // whose limits these are
}

// Role says which pools a worker has, and so which of them its window must fit. A worker answers for its own pool and is
// not told the other's: whoever chooses pairs takes the least window of both.
type Role int

// The roles.
const (
	RolePair    Role = iota // both pools, in one process
	RolePrefill             // PrefillPool alone; DecodePool means nothing
	RoleDecode              // DecodePool alone; PrefillPool means nothing
)

func (r Role) String() string {
	switch r {
	case RolePair:
		return "pair"
	case RolePrefill:
		return "prefill"
	case RoleDecode:
		return "decode"
	}
	return fmt.Sprintf("role %d", int(r))
}

// boundPool is a pool that the window must fit.
type boundPool struct {
	what, flag string
	size       Tokens // in whole pages, as a sequence takes them
}

// pools are those of the role.
func (l Limits) pools() []boundPool {
	prefill := boundPool{"prefill pool", "--prefill-pool", wholePages(l.PrefillPool, l.PageTokens)}
	decode := boundPool{"decode pool", "--decode-pool", wholePages(l.DecodePool, l.PageTokens)}
	switch l.Role {
	case RolePrefill:
		return []boundPool{prefill}
	case RoleDecode:
		return []boundPool{decode}
	}
	return []boundPool{prefill, decode}
}

// FitWindow is the largest window that the model knows and the role's pools can hold. A sequence of n tokens takes whole
// pages, so each pool counts in whole pages.
func (l Limits) FitWindow() Tokens {
	fit := l.ModelWindow
	for _, p := range l.pools() {
		fit = min(fit, p.size)
	}
	return fit
}

// Check refuses limits that contradict each other: a window that is larger than a pool of the role or than the model's own,
// a bound of zero, a negative time-out or an unknown role. The message names both numbers and the way out.
func (l Limits) Check() error {
	if l.Role < RolePair || l.Role > RoleDecode {
		return fmt.Errorf("%v: must be pair, prefill or decode", l.Role)
	}
	if l.HandoffTimeout < 0 {
		return fmt.Errorf("--handoff-timeout %v: must not be negative", l.HandoffTimeout)
	}
	for _, p := range l.pools() {
		if l.Window > p.size {
			return fmt.Errorf("the window of %d tokens does not fit the %s of %d tokens: lower --window to %d or less "+
				"(or leave it at auto), or raise %s to %d or more", l.Window, p.what, p.size, l.FitWindow(), p.flag, l.Window)
		}
	}
	if l.Window > l.ModelWindow {
		return fmt.Errorf("the window of %d tokens is larger than the %d tokens that the model was trained for: "+
			"lower --window to %d or less", l.Window, l.ModelWindow, l.FitWindow())
	}
	if l.Window < 2 {
		return fmt.Errorf("a window of %d tokens holds no prompt and answer: at least 2 are needed; "+
			"raise --window or the pools", l.Window)
	}
	for _, b := range []struct {
		name string
		n    int
	}{{"queue", l.Queue}, {"queue-tenant", l.QueueTenant}, {"running", l.Running}, {"chunk", int(l.Chunk)}} {
		if b.n < 1 {
			return fmt.Errorf("--%s %d: must be at least 1", b.name, b.n)
		}
	}
	return nil
}

// Admit is the only way from a request to workers. It refuses a prompt, or a prompt plus answer, that is over the window,
// with both counts; it fills in MaxTokens where the request names none. The same limits decide at the gateway and in
// each worker, so that a worker never counts on a gateway.
func (l Limits) Admit(r Request) (Admitted, *Refusal) {
	n := Tokens(len(r.Prompt))
	switch {
	case n == 0:
		return Admitted{}, Refuse(CodeInvalid, "prompt", "the prompt is empty: at least one token is needed")
	case r.MaxTokens < 0:
		return Admitted{}, Refuse(CodeInvalid, "max_tokens", "max_tokens is %d: must be at least 1", r.MaxTokens)
	case l.Window < 2: // Check refused this at start; pages that were set aside since have left the pools
		return Admitted{}, Refuse(CodeUnavailable, "", "the KV pools hold no window any more, since pages were set aside after integrity violations; "+
			"the server must be restarted")
	case n >= l.Window:
		return Admitted{}, l.tooLong(r, n, fmt.Sprintf("your prompt has %d tokens, which leaves no room for an answer; "+
			"shorten it to %d tokens or fewer", n, l.Window-1))
	case r.MaxTokens > l.Window-n: // not n+MaxTokens > Window: that sum can overflow
		return Admitted{}, l.tooLong(r, n, fmt.Sprintf("you asked for %d tokens (%d in the prompt, %d in the answer); "+
			"shorten the prompt or lower max_tokens to %d or less", uint64(n)+uint64(r.MaxTokens), n, r.MaxTokens, l.Window-n))
	}
	if r.MaxTokens == 0 {
		r.MaxTokens = l.Window - n
	}
	return Admitted{r: r, ok: true}, nil
}

func (l Limits) tooLong(r Request, n Tokens, what string) *Refusal {
	return &Refusal{
		Code:    CodeContextLength,
		Param:   "messages",
		Message: fmt.Sprintf("this model's maximum context length is %d tokens, however %s", l.Window, what),
		Limit:   l.Window,
		Count:   n + r.MaxTokens,
	}
}

func wholePages(n Tokens, page int) Tokens {
	if page < 1 {
		return 0
	}
	return n / Tokens(page) * Tokens(page)
}
