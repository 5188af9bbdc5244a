# The images of the operator and of the pet store: Node, the program's bundle, and nothing else.
#
#   docker build .                      where a registry answers (for several platforms: docker buildx build)
#   docker build --target petstore .    the pet store's
#   make image        where none does: folders made on the host take the place of the first two stages (named build
#                     contexts of the same names and shapes), a local image that of the last stage's base
#
# Node's version is the one that package-lock.json pins and the tests run on; a unit test holds the two together.

FROM --platform=$BUILDPLATFORM docker.io/library/node:26.10.0-trixie-slim AS bundle
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY LICENSE tsconfig.json ./
COPY src src
COPY tools/release/bundle.ts tools/release/
COPY tools/release/bundle tools/release/bundle
RUN node tools/release/bundle.ts /app \
 && node tools/release/bundle.ts /petstore src/petstore/main.ts

FROM docker.io/library/node:26.10.0-trixie-slim AS node-binary
# libatomic is the one library that Node asks for and the base of the last stage lacks; its licence, gcc's, is there.
# Node asks that its own goes along.
RUN library=$(readlink -f "$(ldd /usr/local/bin/node | awk '/libatomic/ { print $3 }')") \
 && install -D "$library" "/rootfs${library%/*}/libatomic.so.1" \
 && install -D /usr/local/bin/node /rootfs/usr/local/bin/node \
 && install -D --mode=644 /usr/local/LICENSE /rootfs/usr/local/share/doc/node/LICENSE

FROM gcr.io/distroless/cc-debian13:nonroot AS petstore
COPY --from=node-binary /rootfs/usr /usr
COPY --from=bundle /petstore /app
ARG VERSION=dev
LABEL org.opencontainers.image.title="petstore" \
      org.opencontainers.image.description="A pet store, by gRPC: what the operator keeps Pets in" \
      org.opencontainers.image.source="https://github.com/echoperator/echoperator" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}"
# The volume goes to /data, and belongs to this user.
ENV NODE_ENV=production PETSTORE_DATABASE=/data/petstore.db
WORKDIR /app
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/node", "--disable-warning=ExperimentalWarning", "--max-semi-space-size=8", "/app/main.js"]
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
# For a small process: the operator gives back what its first lists left behind (--expose-gc), undici's HTTP parser is
# compiled once and not a second time to be a little faster, and the young generation stays small.
ENTRYPOINT ["/usr/local/bin/node", "--expose-gc", "--liftoff-only", "--max-semi-space-size=8", "/app/main.js"]
