# The proxy and its recorder, without the analysis on Spark (that wants Java; see README.md).
#
#   docker build -t kafka-wiretap:0.2.0 --label org.opencontainers.image.revision=$(git rev-parse HEAD) .
#   docker build -t kafka-wiretap:0.2.0 --build-arg EXTRAS=[ship,hash] .      # the packages of these extras, too
#   docker run -p 9092-9102:9092-9102 -p 9464:9464 -v capture:/capture kafka-wiretap proxy \
#     --upstream broker:9092 --listen 0.0.0.0:9092 --advertise HOST --metrics 0.0.0.0:9464 --record /capture
#
# scripts/check-dockerfile runs these instructions without Docker.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS builder
# in brackets, as pip takes them
ARG EXTRAS=
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY proxy proxy
COPY recorder recorder
COPY dashboards dashboards
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
# an environment without pip: nothing can be installed where it runs; crcmod has no wheels, and needs no compiler
RUN python -m venv --without-pip /opt/kafka-wiretap \
    && pip --python /opt/kafka-wiretap install --no-cache-dir --only-binary :all: --no-binary crcmod "$(ls /wheels/*.whl)${EXTRAS}"
# what the user of the runtime stage may write to
RUN mkdir -p /writable/home /writable/capture

FROM python:${PYTHON}-slim AS runtime
LABEL org.opencontainers.image.title="kafka-wiretap" \
      org.opencontainers.image.description="A transparent Kafka proxy that records every frame to Parquet and measures every API" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=builder /opt/kafka-wiretap /opt/kafka-wiretap
COPY --from=builder --chown=10001:10001 /writable/home /home/kafka-wiretap
COPY --from=builder --chown=10001:10001 /writable/capture /capture
ENV PATH=/opt/kafka-wiretap/bin:/usr/local/bin:/usr/bin:/bin
ENV HOME=/home/kafka-wiretap
ENV PYTHONUNBUFFERED=1
# a number, so that a cluster can see that it is not root
USER 10001:10001
WORKDIR /home/kafka-wiretap
VOLUME /capture
# the bootstrap listener, the first ten nodes' listeners behind it, the admin page
EXPOSE 9092-9102 9464
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9464/livez', timeout=2)"]
ENTRYPOINT ["kafka-wiretap"]
CMD ["--help"]
