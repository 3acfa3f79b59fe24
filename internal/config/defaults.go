package config

import "time"

// Defaults returns the configuration of a single machine: loopback addresses, files in ./.rolloutd.
func Defaults() Config {
	return Config{
		Data: "./.rolloutd",
		Serve: Serve{
			Listen:       "127.0.0.1:8000",
			Mode:         "simulation",
			Web:          true,
			KeepSessions: 7 * 24 * time.Hour,
			UploadsMiB:   8192,
			Search:       true,
			SearchMiB:    10240,
			TokenShare:   0.5,
			CodecOrigins: []string{"http://127.0.0.1:8233", "http://localhost:8233"},
		},
		Gateway: Gateway{
			Listen:        "127.0.0.1:7070",
			TrainerListen: "127.0.0.1:7071",
			Reply:         ReplyComplete,
			Queue:         32,
			EmptyReplies:  8,
		},
		Worker: Worker{
			Listen:     "127.0.0.1:0",
			TokenShare: 1,
			Lease:      5 * time.Minute,
			Janitor:    time.Minute,
			Grace:      2 * time.Minute,
		},
		// The memory of a sandbox decides how many fit on a host, so it always has a value.
		Sandbox: Sandbox{
			MemoryMiB: 2048,
			Warm:      1,
			Images:    Images{MaxGiB: 50, Registries: []string{"docker.io"}},
			E2B:       E2B{CreateRate: 1, Sandboxes: 10},
		},
		Store:      Store{RolloutMiB: 4096, MinFreeMiB: 2048},
		Retention:  Retention{Every: time.Hour},
		Model:      Model{Listen: "127.0.0.1:9099"},
		ToolServer: ToolServer{Listen: "127.0.0.1:9002"},
		Telemetry:  Telemetry{Listen: "127.0.0.1:9464", Service: "rolloutd"},
	}
}
