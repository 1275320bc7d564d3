# Muster's image: a virtual environment made from the lock file, nothing else. It runs as nobody on a read-only root.
# By digest: what a tag names changes. Debian's and Python's security fixes come with a newer digest (docs/install.md).
ARG PYTHON_IMAGE=python:3.13.15-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_NO_INPUT=1
WORKDIR /src

# Dependencies first: they change seldom, and this layer is most of the image. Neither environment has a pip of its own.
COPY requirements.lock requirements-build.lock ./
RUN python -m venv --without-pip /opt/muster \
    && python -m venv --without-pip /opt/build \
    && python -m pip --python /opt/muster/bin/python install \
        --no-compile --no-deps --require-hashes --only-binary :all: -r requirements.lock \
    && python -m pip --python /opt/build/bin/python install \
        --no-compile --no-deps --require-hashes --only-binary :all: -r requirements-build.lock

# Bytecode is written here, as it cannot be on a read-only root: all but that of the Kubernetes client's API classes,
# which are 1,800 files that Muster never loads.
COPY pyproject.toml README.md LICENSE ./
COPY extender/ extender/
COPY muster_lab/ muster_lab/
RUN python -m pip --python /opt/build/bin/python wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && python -m pip --python /opt/muster/bin/python install --no-compile --no-deps --no-index /wheels/*.whl \
    && python -m pip --python /opt/muster/bin/python check \
    && python -m compileall -q -j 0 -x '/kubernetes/(aio/)?client/(api|models)/[^_]' /opt/muster/lib

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="muster" \
      org.opencontainers.image.description="A kube-scheduler extender that gang-schedules GPU workloads" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/muster /opt/muster
ENV PATH=/opt/muster/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# The id of "nonroot" in distroless images; a number, so that runAsNonRoot can be checked.
USER 65532:65532
WORKDIR /
# Health and metrics. The verbs stay on loopback.
EXPOSE 10262
ENTRYPOINT ["muster"]
CMD ["serve"]
