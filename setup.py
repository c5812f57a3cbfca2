"""The one thing that pyproject.toml does not say: the compiled kernel, without which NumPy does the same work."""

import sysconfig

from setuptools import Extension, setup

is_msvc = sysconfig.get_platform().startswith("win")  # Python of the mingw kind says otherwise

setup(
    ext_modules=[
        Extension(
            "segaudit.metrics._kernel",
            ["src/segaudit/metrics/_kernel.c"],
            extra_compile_args=["/std:c11", "/O2"] if is_msvc else ["-std=c11", "-O3"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
