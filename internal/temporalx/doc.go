// Package temporalx connects rolloutd to Temporal: client options from the standard TEMPORAL_* settings,
// encrypted payloads, search attributes, and an interceptor that heartbeats for activities and converts
// errors.
//
// Every payload and every failure's message is compressed and encrypted under the deployment's key before it leaves the
// process; search attributes are not. CodecHandler decrypts for the Temporal UI.
package temporalx
