# The suite on a CPU. Build and run the demo; results land in the current folder, trained models in the volume:
#   docker build -t genrec-unlearn-bench .
#   docker run --rm -v "$PWD:/work" -v bench-cache:/cache genrec-unlearn-bench
#   docker run --rm -v "$PWD:/work" -v bench-cache:/cache genrec-unlearn-bench leaderboard
FROM python:3.11-slim
ENV PIP_NO_CACHE_DIR=1 PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu GENREC_UNLEARN_BENCH_CACHE=/cache
COPY . /src
RUN pip install --constraint /src/constraints.txt torch==2.13.0 \
    && pip install --constraint /src/constraints.txt /src \
    && rm -rf /src
WORKDIR /work
VOLUME /cache
ENTRYPOINT ["bench"]
CMD ["run", "--task", "demo-brand", "--method", "tracer"]
