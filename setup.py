"""The one thing that pyproject.toml does not say: the compiled kernel, without which NumPy does the same work."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "segaudit.metrics._kernel",
            ["src/segaudit/metrics/_kernel.c"],
            extra_compile_args=["-std=c11", "-O3"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
