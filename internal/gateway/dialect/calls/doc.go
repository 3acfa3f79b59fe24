// Package calls reads the tool calls of chat completions, and joins the pieces in which streams have them.
//
// OpenAI's streams number the calls, and give the id and the name of a call once, in its first piece. Engines, routers and their parsers
// differ: they number all calls 0 or none, leave out ids, send arguments as an object, repeat the name with each piece, or repeat the whole
// call at the end. Shape finds such streams. Join finds the calls in them.
package calls
