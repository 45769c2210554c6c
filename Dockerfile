# docker build -t pnne_nb . && docker run --rm -p 8888:8888 pnne_nb
FROM python:3.11-slim

RUN useradd --create-home --uid 1000 person
WORKDIR /home/person/pnne_nb

# PyTorch changes less often than the package: in a layer of its own it is fetched once.
RUN pip install --no-cache-dir "torch>=2.11" --index-url https://download.pytorch.org/whl/cpu

COPY --chown=person . .
# Building the browser bundle needs Node, which the build takes as a Python package and leaves out of the result.
RUN pip install --no-cache-dir ".[lab]" -c constraints.txt

USER person
EXPOSE 8888
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "notebooks/start.ipynb"]
