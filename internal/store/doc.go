// Package store keeps what a rollout leaves behind (results, traces, logs, workspaces) as blobs under stable keys: in a folder
// by default, or wherever a gocloud.dev/blob URL points. Workflows carry only references to it.
//
// A blob is written whole or not at all, power cuts included, and writing a key again replaces it, so an activity that runs twice does no harm.
package store
