// Package proxy is the model proxy of a host. It serves each sandbox's model channel, forwards the agent's calls to the endpoint of
// that rollout, and keeps a record of every call.
//
// A call is completed before it is answered: the proxy reads the whole reply, retries within the call's budget, writes and syncs
// the record, and only then answers the agent. So the agent never sees half a reply, and what it saw is on disk. An abort closes
// the upstream request at once. The real API key is opened here alone, and appears only in the headers of upstream requests.
//
// Routes are journalled. A restarted proxy serves them again, and a call without an answer comes back under the same call id.
package proxy
