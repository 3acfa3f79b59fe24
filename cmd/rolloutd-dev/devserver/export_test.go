package devserver

import "go.temporal.io/server/common/dynamicconfig"

// ChoosingPorts returns o with choose as the function that chooses the ports. The argument free is the
// server's own function.
func ChoosingPorts(o Options, choose func(front int, free func(int) ([4]int, error)) ([4]int, error)) Options {
	o.choose = func(front int) ([len(services)]int, error) { return choose(front, freePorts) }
	return o
}

// DynamicConfig returns the server's dynamic configuration.
func DynamicConfig() map[dynamicconfig.Key]any { return dynamicConfig() }
