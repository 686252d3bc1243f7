# nsqd in a container:
#
#   docker build -t nsqlake .
#   docker run -v nsqd:/data -p 4150:4150 -p 127.0.0.1:4151:4151 nsqlake --broadcast-address=this-host
#
# Everything is written below /data, so the rest may be read-only:
#
#   docker run --read-only --cap-drop=ALL --security-opt=no-new-privileges \
#     --ulimit nofile=65536:65536 --memory=2g -v nsqd:/data nsqlake
#
# With --tls-required the probe has to use HTTPS or be switched off: set NSQD_PING_URL, or --no-healthcheck.
# `docker stop -t 60` gives a clean stop the time it needs.

FROM python:3.11-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir --no-compile --prefix=/install .

FROM python:3.11-slim
COPY --from=build /install /usr/local
RUN groupadd --system --gid 4150 nsqd \
    && useradd --system --uid 4150 --gid nsqd --no-create-home --home-dir /data --shell /usr/sbin/nologin nsqd \
    && install -d -o nsqd -g nsqd -m 0700 /data
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NSQD_PING_URL=http://127.0.0.1:4151/ping
USER nsqd
WORKDIR /data
VOLUME /data
EXPOSE 4150 4151 4152
STOPSIGNAL SIGTERM
# After a crash the last log files are read first, so the start may take a while.
HEALTHCHECK --interval=10s --timeout=3s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(os.environ['NSQD_PING_URL'], timeout=2)"]
ENTRYPOINT ["nsqd", "--data-path=/data"]
