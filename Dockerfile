# A static binary on a bare image, run by an unprivileged account. PostgreSQL and Redis are separate services here:
# see compose.yaml.
FROM golang:1.26.8-bookworm@sha256:a688600ca24f8a4d3ca77f95b0dd40704a9fc787c826660eb7ba0b641b8b175d AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w -X main.version=${VERSION}" -o /out/wending ./cmd/wending \
 && mkdir -p /out/data /out/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/wending /wending
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build --chown=65532:65532 /out/tmp /tmp
ENV LISTEN_ADDR=0.0.0.0:8080 DATA_DIR=/data
VOLUME /data /tmp
EXPOSE 8080
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=6s --start-period=20s CMD ["/wending", "healthcheck"]
ENTRYPOINT ["/wending"]
CMD ["serve"]
