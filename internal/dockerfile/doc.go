// Package dockerfile builds images of Dockerfiles without a container engine.
//
// A Builder reads a Dockerfile with BuildKit's parser, plans the stages that the last one needs, and adds a layer to
// the store of images for each COPY, ADD, WORKDIR and RUN. A RUN is a process in a sandbox of its own, whose root is
// the image so far; what it has changed is its layer.
//
// Each step has a key: the digest of all that its layer depends on. A step whose key the store knows is not run
// again. The hosts that a RUN may reach belong to its key; as in a container engine, what it fetches from them does not.
//
// The Dockerfile, its folder and the commands of RUN are not trusted. What is not supported is refused with its line
// before anything runs.
package dockerfile
