package devserver

import (
	"io"

	"go.temporal.io/server/common/dynamicconfig"
)

// ChoosingPorts returns o with ports that change has changed after they were chosen.
func ChoosingPorts(o Options, change func(ports *[4]int)) Options {
	o.choose = func(front int) ([len(services)]int, io.Closer, error) {
		ports, block, err := freePorts(front)
		change(&ports)

		return ports, block, err
	}

	return o
}

// FreePorts chooses ports as a server does.
func FreePorts() ([4]int, io.Closer, error) { return freePorts(0) }

// DynamicConfig returns the server's dynamic configuration.
func DynamicConfig() map[dynamicconfig.Key]any { return dynamicConfig() }
