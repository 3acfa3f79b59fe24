// Package bench measures the OpenEnv edge beside the reference server for Python, in one run on one
// machine. It holds only tests, which do nothing unless ROLLOUTD_BENCH_EDGE is set.
package bench
