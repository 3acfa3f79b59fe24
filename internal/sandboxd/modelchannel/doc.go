// Package modelchannel is the inner end of the model channel: it carries the calls of a sandbox's processes
// to the gateway, over a connection that the gateway has made.
package modelchannel
