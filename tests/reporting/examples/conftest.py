"""One scene for all tests that only look at it."""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.reporting.examples.page import Page
from genrec_unlearn_bench.reporting.examples.scene import Scene
from tests.reporting.examples.scenes import made_page, made_scene, odd_page


@pytest.fixture(scope="package")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return made_scene(tmp_path_factory.mktemp("scene"))


@pytest.fixture(scope="package")
def page(scene: Scene) -> Page:
    return made_page(scene)


@pytest.fixture(scope="package")
def odd(page: Page) -> Page:
    return odd_page(page)
