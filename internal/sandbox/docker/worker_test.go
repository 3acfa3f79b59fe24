package docker_test

const workerEnv = "ROLLOUTD_TEST_DOCKER_WORKER"

func work(string) int { return 1 }
