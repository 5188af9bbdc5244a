# The images of the operator and the pet store. They contain only Node and the program's bundle.
#
#   docker build .                      builds the operator's image (for several platforms: docker buildx build)
#   docker build --target petstore .    builds the pet store's image
#   make image                          builds both without an image registry: named build contexts replace the first two
#                                       stages, and a local image replaces the base image of the last stages
#
# Node's version is the one that package-lock.json pins. A unit test compares them.

FROM --platform=$BUILDPLATFORM docker.io/library/node:26.10.0-trixie-slim AS bundle
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
COPY packages packages
RUN npm ci --ignore-scripts
COPY LICENSE tsconfig.json ./
COPY src src
COPY tools/release/bundle.ts tools/release/
COPY tools/release/bundle tools/release/bundle
RUN node tools/release/bundle.ts /app \
 && node tools/release/bundle.ts /petstore packages/petstore/src/server/main.ts

FROM docker.io/library/node:26.10.0-trixie-slim AS node-binary
# Node needs libatomic, which the base image of the last stages lacks; it contains libatomic's licence, which is gcc's. Node's licence
# requires that copies include it.
RUN library=$(readlink -f "$(ldd /usr/local/bin/node | awk '/libatomic/ { print $3 }')") \
 && install -D "$library" "/rootfs${library%/*}/libatomic.so.1" \
 && install -D /usr/local/bin/node /rootfs/usr/local/bin/node \
 && install -D --mode=644 /usr/local/LICENSE /rootfs/usr/local/share/doc/node/LICENSE

FROM gcr.io/distroless/cc-debian13:nonroot AS petstore
COPY --from=node-binary /rootfs/usr /usr
COPY --from=bundle /petstore /app
ARG VERSION=dev
LABEL org.opencontainers.image.title="petstore" \
      org.opencontainers.image.description="A pet store with a gRPC API, in which the operator keeps Pets" \
      org.opencontainers.image.source="https://github.com/echoperator/echoperator" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}"
# Mount the volume at /data, writable for this user.
ENV NODE_ENV=production PETSTORE_DATABASE=/data/petstore.db
WORKDIR /app
USER 65532:65532
# V8 lets the heap grow to the memory of the whole container before it collects all garbage. The store's limits for requests keep it smaller.
ENTRYPOINT ["/usr/local/bin/node", "--disable-warning=ExperimentalWarning", "--max-semi-space-size=8", "--max-old-space-size=96", "/app/main.js"]
CMD ["serve"]

FROM gcr.io/distroless/cc-debian13:nonroot
COPY --from=node-binary /rootfs/usr /usr
COPY --from=bundle /app /app
ARG VERSION=dev
LABEL org.opencontainers.image.title="echoperator" \
      org.opencontainers.image.description="A Kubernetes operator in TypeScript" \
      org.opencontainers.image.source="https://github.com/echoperator/echoperator" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}"
ENV NODE_ENV=production
WORKDIR /app
USER 65532:65532
# These flags save memory: the operator collects garbage after its first lists (--expose-gc), V8 compiles undici's HTTP parser only once
# (--liftoff-only), and the young generation of the heap stays small. One worker thread is enough for V8: waking four costs 5 % of the CPU.
ENTRYPOINT ["/usr/local/bin/node", "--expose-gc", "--liftoff-only", "--max-semi-space-size=8", "--v8-pool-size=1", "/app/main.js"]
