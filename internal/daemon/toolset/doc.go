// Package toolset makes the tools of a deployment from its configuration: the registry of policies, and the tool server.
package toolset
