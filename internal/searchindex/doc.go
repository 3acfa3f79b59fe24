// Package searchindex finds ended rollouts by words of their transcripts.
//
// The index is a file of SQLite beside a server: it is made of the store, follows it, and is made again where it is
// missing, damaged or of another version. Queries and texts are data to it: no text is read as a query's syntax or as
// SQL.
package searchindex
