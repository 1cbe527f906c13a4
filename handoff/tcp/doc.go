// Package tcp carries handoffs between two processes, over TCP, with or without TLS, and between two processes of one host
// through memory that they share. docs/handoff.md is the protocol; package wire has its frames.
//
// A prefill worker has an [Outlet]: it listens, and serves sealed pages of the rooms that it was told to open. A decode
// worker has an [Inlet]: it dials each prefill worker when it is first told of a room there, keeps the connection for the
// rooms to come, and pulls. Nobody writes into a pool but its owner: a page comes from the socket into a landing of the
// decode worker's own, by a goroutine of its own.
//
//	out, err := tcp.NewOutlet(cfg)                in, err := tcp.NewInlet(cfg)
//	out.Notify(wake)                              in.Notify(wake)
//	go out.Serve(listener)
//	out.Open(room, peer, claim)                   in.Enter(room, peer, claim)
//	out.Publish(offer, pages)  ---- OFFER ---->   in.Receive()
//	                           <--- PULL  ----    in.Pull(room, 0, landing)
//	                           ---- PAGE  ---->   in.Receive()
//	out.Receive()              <--- COMMIT ---    in.End(commit)
//	out.Close(room)            ---- DONE  ---->
//
// # Fences
//
// Each connection has one goroutine that reads and one that writes. A source says that a room is Lost when both have
// returned; a target lets a landing arrive with an error when both have returned. Time-outs close connections and do
// nothing else.
package tcp
