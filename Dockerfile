# The live service: docker build -t x2localizer .
# docker run -p 8471:8471 -v ./city-gallery:/gallery -v x2l-state:/state -v ./token.txt:/run/secrets/token:ro x2localizer
FROM python:3.12-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/x2l \
    && /opt/x2l/bin/pip install --no-cache-dir '.[serve]'

FROM python:3.12-slim-bookworm
# The kernels are compiled at the first start; their cache lies in the state, so that the next start is quick.
ENV PATH=/opt/x2l/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    XDG_CACHE_HOME=/state/cache
# rasterio's wheels need libexpat, which slim images lack.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libexpat1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home x2l \
    && install --directory --owner=x2l --group=x2l --mode=0700 /state
COPY --from=build /opt/x2l /opt/x2l
USER 10001
VOLUME /state
EXPOSE 8471
HEALTHCHECK --interval=15s --timeout=5s --start-period=180s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8471/readyz', timeout=4)"]
ENTRYPOINT ["x2l", "serve"]
CMD ["--gallery", "/gallery", "--state", "/state", "--host", "0.0.0.0", "--token-file", "/run/secrets/token"]
