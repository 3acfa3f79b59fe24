// Package tool is what a policy may call: tools with JSON schemas, toolsets that name them, and the calls themselves.
//
// A Registry knows all tools of a deployment. Select picks some of them by toolset, and Bind ties the selection to one sandbox: a
// Set. Servers of tools outside the sandbox are asked for their tools when a selection is bound. An agent shows the definitions of its Set to the policy and passes the policy's calls to it.
package tool
