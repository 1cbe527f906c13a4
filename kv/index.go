package kv

import "github.com/bulkhead-llm/bulkhead"

const none = int32(-1)

// prefixIndex finds full pages by identity, and orders those that nobody holds by when they were last used. The order is
// a list through the pool's pages: oldest is evicted first.
//
// An identity speaks for everything before it, so the index is flat: a lookup walks a prompt from its first page and stops
// at the first page that is not there. A page whose parent has been evicted cannot be reached by it until the parent is
// computed again; pages are linked last page first, so that children are evicted before their parents.
type prefixIndex struct {
	pages  map[bulkhead.Identity]bulkhead.PageIndex
	oldest int32
	newest int32
	cached int // length of the list
}

func newPrefixIndex(n int) prefixIndex {
	return prefixIndex{pages: make(map[bulkhead.Identity]bulkhead.PageIndex, n), oldest: none, newest: none}
}

func (x *prefixIndex) find(id bulkhead.Identity) (bulkhead.PageIndex, bool) {
	i, ok := x.pages[id]
	return i, ok
}

// add enters a page and reports whether the identity was free.
func (x *prefixIndex) add(id bulkhead.Identity, i bulkhead.PageIndex) bool {
	if _, taken := x.pages[id]; taken {
		return false
	}
	x.pages[id] = i
	return true
}

func (x *prefixIndex) remove(id bulkhead.Identity) { delete(x.pages, id) }

// link makes a page the most recently used of those that can be evicted.
func (x *prefixIndex) link(pages []page, i int32) {
	pages[i].prev, pages[i].next = x.newest, none
	if x.newest == none {
		x.oldest = i
	} else {
		pages[x.newest].next = i
	}
	x.newest = i
	x.cached++
}

// unlink takes a page out of the order, because it is read again or evicted.
func (x *prefixIndex) unlink(pages []page, i int32) {
	prev, next := pages[i].prev, pages[i].next
	if prev == none {
		x.oldest = next
	} else {
		pages[prev].next = next
	}
	if next == none {
		x.newest = prev
	} else {
		pages[next].prev = prev
	}
	x.cached--
}
