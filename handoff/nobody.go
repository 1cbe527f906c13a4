package handoff

// Nobody is a peer that cannot be: no certificate and no hello has its name, so a room that is opened to it is entered by nobody,
// and there is nothing to pull from it. An order with it is a worker's own, to see whether its loop computes: at prefill it is
// computed and dropped, at decode it is a prompt of one token, whose prefix is empty, so that there is no room to enter.
var Nobody = Peer{Name: " nobody "}
