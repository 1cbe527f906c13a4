package cluster

import "testing"

func TestSample(t *testing.T) {
	for line, want := range map[string]struct {
		name, state string
		value       int
		ok          bool
	}{
		`bulkhead_pages{state="free",worker="decode"} 12`: {"bulkhead_pages", "free", 12, true},
		`bulkhead_rooms 3`:                          {"bulkhead_rooms", "", 3, true},
		`bulkhead_pages{state="live"} 1.048576e+06`: {"bulkhead_pages", "live", 1 << 20, true},
		`# HELP bulkhead_rooms Rooms.`:              {},
		``:                                          {},
		`nonsense`:                                  {},
		`bulkhead_rooms many`:                       {},
	} {
		name, labels, value, ok := sample(line)
		if ok != want.ok || ok && (name != want.name || labels["state"] != want.state || value != want.value) {
			t.Errorf("%q: %q %v %d %v", line, name, labels, value, ok)
		}
	}
}

func TestSettled(t *testing.T) {
	books := func(change func(*Books)) Books {
		b := Books{Pages: map[string]int{"free": 6, "cached": 2, "live": 0, "quarantined": 0, "set_aside": 0},
			Requests: map[string]int{"running": 0, "waiting": 0}}
		change(&b)
		return b
	}
	if err := books(func(*Books) {}).Settled(8); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Books){
		"a live page":          func(b *Books) { b.Pages["live"], b.Pages["free"] = 1, 5 },
		"a page in quarantine": func(b *Books) { b.Pages["quarantined"], b.Pages["free"] = 1, 5 },
		"a page set aside":     func(b *Books) { b.Pages["set_aside"], b.Pages["free"] = 1, 5 },
		"a lost page":          func(b *Books) { b.Pages["free"] = 5 },
		"no pages":             func(b *Books) { b.Pages = nil },
		"a request":            func(b *Books) { b.Requests["running"] = 1 },
		"a room":               func(b *Books) { b.Rooms = 1 },
	} {
		if books(change).Settled(8) == nil {
			t.Errorf("%s is taken for settled", name)
		}
	}
}
