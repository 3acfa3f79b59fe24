// Package tool is the tools of a policy: tools with JSON schemas, toolsets that group them, and calls.
//
// A Registry holds all tools of a deployment. Select picks some of them by toolset, and Bind ties the
// selection to one sandbox: a Set. Bind asks servers of tools outside the sandbox for their tools. An agent
// shows the definitions of its Set to the policy and passes the policy's calls to it.
package tool
