package opencode

// Pin makes sum the only accepted checksum, for any version and platform, so that fetching can be tested with a small file.
func (a *Agent) Pin(sum string) {
	a.find = func(version, platform string) (release, error) {
		return release{version, platform, "opencode-test", sum}, nil
	}
}
