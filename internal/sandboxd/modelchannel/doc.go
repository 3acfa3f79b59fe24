// Package modelchannel is the inner end of the model channel: it takes the calls of a sandbox's processes and carries them to the
// gateway, over a connection that the gateway has made.
package modelchannel
