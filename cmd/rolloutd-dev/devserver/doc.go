// Package devserver is a Temporal server and its web UI inside this process, for one host: SQLite in a
// folder, loopback listeners, one lock so that two processes never open one database (SQLite would let
// them, and each would steal the shard from the other).
//
// The server persists everything, so a killed process continues when it is started again on the same
// folder. There is no schema migration: the schema's version is part of the file's name, and a folder with
// a newer one is refused.
package devserver
