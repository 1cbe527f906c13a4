package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
)

const room = bulkhead.Room(0x1122334455667788)

func exampleHello() *Hello {
	h := &Hello{
		Min: 1, Max: 1, Role: Target, KVType: KVF16, Layout: bulkhead.Layout{Layers: 30, KVHeads: 3, HeadSize: 64, PageTokens: 32},
		Rooms: 1024, Pulls: 256, PullRun: 64, InFlight: 64 << 20, Ping: 1000, Name: "decode-1", Kernels: "avx512",
	}
	h.PageBytes = h.Layout.PageBytes()
	for i := range 32 {
		h.Nonce[i], h.Fingerprint[i] = byte(i), byte(0xf0+i)
	}
	return h
}

func refusal() *bulkhead.End {
	return &bulkhead.End{Reason: bulkhead.Refused, Prompt: 5000, Refusal: &bulkhead.Refusal{Code: bulkhead.CodeContextLength,
		Message: "your prompt has 5000 tokens; shorten it to 4095 tokens or fewer", Param: "messages", Limit: 4096, Count: 5000,
		RetryAfter: 2 * time.Second}}
}

// good are frames that every reader takes.
func good() map[string]vector {
	src := exampleHello()
	src.Role, src.Name, src.Socket, src.Max, src.Boot = Source, "prefill-ü", "@bulkhead-handoff-00", 3, [16]byte{1, 2}
	violated := &bulkhead.End{Reason: bulkhead.Violated, Err: errors.New("page 3, layer 2, k: expected 1, found 2"), Prompt: 40, Cached: 32, Completion: 1}
	page := Page{Page: 2, Bytes: exampleHello().PageBytes}
	ringed := Page{Page: 2, Bytes: exampleHello().PageBytes, Ring: true, Offset: 3 * 741376}
	two := AppendOffer(AppendCommit(nil, room), room+1, 0)
	all := map[string]vector{
		"hello-target":     {about: "a target's first frame", data: AppendHello(nil, exampleHello())},
		"hello-source":     {about: "a source that offers shared memory and speaks versions to come as well", data: AppendHello(nil, src)},
		"auth":             {about: "a proof", data: AppendAuth(nil, NewTranscript([]byte("t"), []byte("s"), nil).Prove(&[32]byte{1}, ProofTarget))},
		"error":            {about: "why a peer is refused", data: AppendError(nil, Errorf(CodePageSize, "the peer has pages of 32 tokens, this worker of 16"))},
		"error-unknown":    {about: "a code that a later version has", data: AppendError(nil, Errorf(900, "something new"))},
		"error-empty":      {about: "no text", data: AppendError(nil, Errorf(CodeClosing, ""))},
		"ping":             {about: "a ping", data: AppendPing(nil, 7)},
		"pong":             {about: "its answer", data: AppendPong(nil, 7)},
		"ring":             {about: "a target has mapped the ring", data: AppendRing(nil, Ring{Slots: 11, SlotBytes: 741376})},
		"credit":           {about: "a slot is free again", data: AppendCredit(nil, 10)},
		"enter":            {about: "a target asks for a room", data: AppendEnter(nil, room, handoff.Claim{1, 2, 3})},
		"enter-high":       {about: "the highest room", data: AppendEnter(nil, 1<<63-1, handoff.Claim{})},
		"offer":            {about: "three pages can be pulled", data: AppendOffer(nil, room, 3)},
		"offer-none":       {about: "an offer of a room without pages", data: AppendOffer(nil, room, 0)},
		"pull":             {about: "two pages are asked for", data: AppendPull(nil, room, 1, 2)},
		"page-stream":      {about: "a page follows behind the frame", data: AppendPage(nil, room, page)},
		"page-ring":        {about: "a page lies in the ring", data: AppendPage(nil, room, ringed)},
		"stop":             {about: "a source stops and does not say why", data: AppendStop(nil, room, nil)},
		"stop-refused":     {about: "the source has refused the request", data: AppendStop(nil, room, refusal())},
		"stop-violated":    {about: "the source had a violation", data: AppendStop(nil, room, violated)},
		"stop-aborted":     {about: "the client has left", data: AppendStop(nil, room, &bulkhead.End{Reason: bulkhead.Aborted})},
		"commit":           {about: "every page is proven", data: AppendCommit(nil, room)},
		"abandon":          {about: "page 2 could not be proven", data: AppendAbandon(nil, room, 2)},
		"abandon-no-page":  {about: "no page is to blame", data: AppendAbandon(nil, room, -1)},
		"done":             {about: "nothing more of the room follows", data: AppendDone(nil, room)},
		"commit-and-offer": {about: "two frames of two rooms", data: two},
	}
	return all
}

// bad are frames that every reader refuses: one of each kind.
func bad() map[string]vector {
	all := map[string]vector{}
	add := func(name, about string, data []byte) { all[name] = vector{about: about, data: data} }
	offer, hello := AppendOffer(nil, room, 3), AppendHello(nil, exampleHello())

	add("http", "somebody speaks HTTP", []byte("GET / HTTP/1.1\r\nHost: prefill\r\n\r\n"))
	add("cut-header", "the stream ends within a header", offer[:10])
	add("cut-body", "the stream ends within a body", offer[:len(offer)-1])
	add("sum-header", "a room that was changed on the way", flip(offer, 8))
	add("sum-body", "a body that was changed on the way", flip(offer, HeaderBytes))
	add("type-unknown", "a type that is none", forge(offer, func(b []byte) { b[4] = 16 }))
	add("type-zero", "type 0", forge(offer, func(b []byte) { b[4] = 0 }))
	add("flags", "a byte of the header that must be zero", forge(offer, func(b []byte) { b[6] = 1 }))
	add("room-zero", "a frame about room 0", forge(offer, func(b []byte) { clear(b[8:16]) }))
	add("room-high", "a room of 64 bits", forge(offer, func(b []byte) { b[15] = 0x80 }))
	add("room-of-ping", "a frame of the connection that names a room", forge(AppendPing(nil, 1), func(b []byte) { b[8] = 1 }))
	add("length-short", "an OFFER of 3 bytes", resize(offer, 3))
	add("length-long", "an OFFER of 5 bytes", resize(offer, 5))
	add("length-huge", "a body of 4 GiB is announced", forge(offer, func(b []byte) { binary.LittleEndian.PutUint32(b[16:], 1<<32-1) }))
	add("length-stop", "a STOP that is longer than any", resize(AppendStop(nil, room, nil), MaxBody+1))
	badHellos(add, hello)
	badRooms(add)
	badStops(add)
	return all
}

func badHellos(add func(string, string, []byte), hello []byte) {
	at := func(offset int, v ...byte) []byte {
		return forge(hello, func(b []byte) { copy(b[HeaderBytes+offset:], v) })
	}
	add("hello-version-newer", "a peer that speaks later versions only, with a body that nobody knows", resize(at(0, 9, 0, 11, 0), 900))
	add("hello-version-older", "versions 0 to 1", at(0, 0, 0))
	add("hello-version-order", "versions 3 to 1", at(0, 3, 0, 1, 0))
	add("hello-role", "a role that is none", at(4, 3))
	add("hello-zero", "a byte that must be zero", at(6, 1))
	for i, name := range []string{"layers", "kv-heads", "head-size", "page-tokens", "page-bytes", "rooms", "pulls", "pull-run", "ping"} {
		add("hello-"+name, "no "+name, at(72+4*i, 0, 0, 0, 0))
	}
	add("hello-layers-many", "2^32-1 layers", at(72, 255, 255, 255, 255))
	add("hello-in-flight", "no bytes in flight", at(108, make([]byte, 8)...))
	add("hello-short", "a hello that ends early", resize(hello, 100))
	add("hello-long", "a hello with a byte behind its end", resize(hello, len(hello)-HeaderBytes+1))
	h := exampleHello()
	h.Name = ""
	add("hello-no-name", "a hello without a name", AppendHello(nil, h))
	add("hello-name-control", "a name with a line feed", forge(hello, func(b []byte) { b[HeaderBytes+134] = '\n' }))
	add("hello-name-utf8", "a name that is no UTF-8", forge(hello, func(b []byte) { b[HeaderBytes+134] = 0xff }))
	h = exampleHello()
	long := AppendHello(nil, h)
	long = append(long[:HeaderBytes+132+1+len(h.Name)], 65)
	long = append(long, make([]byte, 66)...)
	for i := range 65 {
		long[len(long)-66+i] = 'k'
	}
	add("hello-kernels-long", "kernels of 65 bytes", end(long, 0))
}

func badRooms(add func(string, string, []byte)) {
	u32 := func(b []byte, offset int, v uint32) []byte {
		return forge(b, func(b []byte) { binary.LittleEndian.PutUint32(b[HeaderBytes+offset:], v) })
	}
	add("offer-many", "an offer of more pages than any room has", AppendOffer(nil, room, MaxPages+1))
	add("pull-none", "a pull of no page", AppendPull(nil, room, 1, 0))
	add("pull-many", "a pull of 2^32-1 pages", u32(AppendPull(nil, room, 0, 1), 4, 1<<32-1))
	add("pull-high", "a pull of page 2^32-1", u32(AppendPull(nil, room, 0, 1), 0, 1<<32-1))
	add("page-high", "page 2^32-1", u32(AppendPage(nil, room, Page{Bytes: 64}), 0, 1<<32-1))
	add("page-empty", "a page of no bytes", AppendPage(nil, room, Page{}))
	add("page-huge", "a page of 4 GiB", u32(AppendPage(nil, room, Page{Bytes: 64}), 4, 1<<32-1))
	add("page-way", "a page that goes by a way that is none", forge(AppendPage(nil, room, Page{Bytes: 64}), func(b []byte) { b[HeaderBytes+8] = 2 }))
	add("page-zero", "a byte that must be zero", forge(AppendPage(nil, room, Page{Bytes: 64}), func(b []byte) { b[HeaderBytes+9] = 2 }))
	add("page-offset", "a page by the stream, with an offset", AppendPage(nil, room, Page{Bytes: 64, Offset: 64}))
	add("abandon-high", "a page that no room has", u32(AppendAbandon(nil, room, 0), 0, MaxPages))
	add("commit-long", "a COMMIT with a body", resize(AppendCommit(nil, room), 1))
	add("ring-none", "a ring without slots", AppendRing(nil, Ring{SlotBytes: 4096}))
	add("ring-size", "a ring of slots without bytes", AppendRing(nil, Ring{Slots: 4}))
	add("ring-zero", "a byte that must be zero", u32(AppendRing(nil, Ring{Slots: 4, SlotBytes: 4096}), 4, 1))
	add("credit-high", "a slot that no ring has", AppendCredit(nil, 1<<16))
	add("error-long", "an ERROR whose text is longer than its frame", forge(AppendError(nil, Errorf(CodeClosing, "bye")), func(b []byte) { b[HeaderBytes+2] = 4 }))
	add("error-rest", "an ERROR with bytes behind its text", forge(AppendError(nil, Errorf(CodeClosing, "bye")), func(b []byte) { b[HeaderBytes+2] = 2 }))
	add("error-control", "an ERROR that would move a terminal's cursor", forge(AppendError(nil, Errorf(CodeClosing, "bye")), func(b []byte) { b[HeaderBytes+4] = 27 }))
}

func badStops(add func(string, string, []byte)) {
	stop := AppendStop(nil, room, refusal())
	set := func(offset int, v ...byte) []byte {
		return forge(stop, func(b []byte) { copy(b[HeaderBytes+offset:], v) })
	}
	plain := AppendStop(nil, room, nil)
	add("stop-reason", "a reason that is none", set(0, 8))
	add("stop-refusal-missing", "refused, and no refusal", set(1, 0))
	add("stop-refusal-odd", "a refusal, and the reason is another", set(0, byte(bulkhead.Failed)))
	add("stop-lengths", "a code that is longer than any", set(2, 65))
	add("stop-limit", "a limit of 2^63", set(8+7, 0x80))
	add("stop-retry", "retry after 2^63 nanoseconds", set(24+7, 0x80))
	add("stop-prompt", "a prompt of 2^32-1 tokens", set(32, 255, 255, 255, 255))
	add("stop-zero", "a byte that must be zero", set(44, 1))
	add("stop-text", "a message with a control byte", set(stopFixed+len(bulkhead.CodeContextLength)+len("messages"), 7))
	add("stop-short", "texts that end early", resize(stop, len(stop)-HeaderBytes-1))
	add("stop-numbers", "no reason, and numbers of a refusal", forge(plain, func(b []byte) { b[HeaderBytes+8] = 1 }))
	add("stop-tokens", "no reason, and a count of tokens", forge(plain, func(b []byte) { b[HeaderBytes+32] = 1 }))
}

// flip changes one bit and leaves the checksum.
func flip(b []byte, at int) []byte {
	b = append([]byte(nil), b...)
	b[at] ^= 1
	return b
}

// forge changes a frame and makes its checksum right: what somebody sends who means it.
func forge(b []byte, change func([]byte)) []byte {
	b = append([]byte(nil), b...)
	change(b)
	binary.LittleEndian.PutUint32(b[20:], frameSum(b[:HeaderBytes], b[HeaderBytes:]))
	return b
}

// resize makes a frame's body n bytes long.
func resize(b []byte, n int) []byte {
	b = append([]byte(nil), b...)
	for len(b) < HeaderBytes+n {
		b = append(b, 0)
	}
	b = end(b[:HeaderBytes+n], 0)
	if len(b) != HeaderBytes+n {
		panic(fmt.Sprint("resized to ", len(b)))
	}
	return b
}
