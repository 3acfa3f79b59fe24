// Package temporalx is how rolloutd speaks to Temporal: client options from the standard TEMPORAL_* settings, encrypted
// payloads, search attributes, and interceptors that keep activities' heartbeats and map error kinds.
//
// Every payload and every failure's message is compressed and encrypted under the deployment's key before it leaves the
// process; search attributes are not. CodecHandler decrypts for the Temporal UI.
package temporalx
