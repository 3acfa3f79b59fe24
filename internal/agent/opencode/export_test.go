package opencode

// Pin makes sum the one checksum that a takes, for any version and platform: fetching can then be tested with a small file.
func (a *Agent) Pin(sum string) {
	a.find = func(version, platform string) (release, error) {
		return release{version, platform, "opencode-test", sum}, nil
	}
}
