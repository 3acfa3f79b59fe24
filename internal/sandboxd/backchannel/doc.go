// Package backchannel is the inner end of a channel that the host side opens into a sandbox and that
// carries requests of the sandbox: HTTP/2 on a control connection, with this side as the client.
package backchannel
