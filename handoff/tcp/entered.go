package tcp

import "github.com/bulkhead-llm/bulkhead"

// Entered reports whether a target has entered the room: an ENTER with the right claim was bound to it.
func (o *Outlet) Entered(id bulkhead.Room) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.rooms[id]
	return r != nil && r.entry != nil
}
