package devserver

import "go.temporal.io/server/common/dynamicconfig"

// ChoosingPorts are the options with a choice of ports of the test's own; free is the choice that is made otherwise.
func ChoosingPorts(o Options, choose func(front int, free func(int) ([4]int, error)) ([4]int, error)) Options {
	o.choose = func(front int) ([len(services)]int, error) { return choose(front, freePorts) }
	return o
}

// DynamicConfig is the server's dynamic configuration.
func DynamicConfig() map[dynamicconfig.Key]any { return dynamicConfig() }
