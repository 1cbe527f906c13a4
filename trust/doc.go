// Package trust says who may speak to whom in a cluster: mutual TLS 1.3 between gateway and workers and between workers,
// and the cluster's secret.
//
// A node has a directory of its own:
//
//	ca.pem        the authorities whose certificates are believed; more than one while they are replaced
//	node.pem      the node's certificate, with intermediate ones behind it
//	node-key.pem  its key, ECDSA P-256 or Ed25519, PKCS #8, readable by nobody else
//	secret.key    the cluster's secret, the same on every node, readable by nobody else
//
//	node, err := trust.Load(dir, log)
//	server := &http.Server{TLSConfig: node.ServerTLS(trust.Gateway)}         // who shows no gateway's certificate is not let in
//	conn, err := tls.Dial("tcp", addr, node.ClientTLS(trust.Prefill, "p1"))  // only prefill worker p1 is spoken to
//	role, name, err := trust.PeerOf(conn.ConnectionState())
//
// A certificate names its [Subject], role and name, in one URI, spiffe://bulkhead/ROLE/NAME. That URI is what is checked, in
// both directions, and host names are not: a worker is the same worker wherever it listens, its address comes from an
// operator's list or from another worker, and a certificate of a host would say nothing of the role. Certificates carry host
// names and addresses all the same, for clients that know nothing of roles (curl, a router made for SGLang). The cost: a
// client that does not know the name, and asks for "", takes any node of the role.
//
// Every connection proves itself anew: there is no resumption, so a certificate that has expired, or whose authority was
// removed, opens no connection any more. Those that are open stay open.
//
// Files are looked at again when a connection is made, at most once a second, and taken when they have changed and fit each
// other, so certificates, keys and authorities are replaced without a restart. A node does not become another: role and
// name stay what they were at the start. The secret is read once; to change it the cluster is started again.
//
// [Authority] issues all of this, for a start without an authority of one's own.
package trust
