# The commands of the package, on a GPU if there is one:
#
#     docker build -t albert_tf .
#     docker run --rm --gpus=all --user="$(id -u):$(id -g)" -v "$PWD:/data" albert_tf \
#         albert-classify --output_dir=classifier ...
#
# Without a GPU, `--build-arg=TENSORFLOW=tensorflow` gives a smaller image, and `--gpus` is left out.
FROM python:3.12-slim-bookworm AS build
COPY pyproject.toml README.md LICENSE /source/
COPY albert_tf /source/albert_tf
RUN pip wheel --no-cache-dir --no-deps --wheel-dir=/wheels /source

FROM python:3.12-slim-bookworm
ARG TENSORFLOW=tensorflow[and-cuda]
COPY requirements.txt /tmp/
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --constraint=/tmp/requirements.txt /wheels/*.whl "$TENSORFLOW"
WORKDIR /data
CMD ["albert-classify", "--help"]
