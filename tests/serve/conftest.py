"""A gallery of the small town for the service, with tiles of the tiny bundle and roads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers.served import Served, served
from x2localizer.encoders import Bundle
from x2localizer.gallery import Gallery, index
from x2localizer.serve.client import Client
from x2localizer.town.folder import save_town
from x2localizer.town.town import Town


@pytest.fixture(scope="session")
def served_gallery(tmp_path_factory: pytest.TempPathFactory, town: Town, tiny_bundle: Bundle) -> Gallery:
    folder = tmp_path_factory.mktemp("served")
    save_town(town, folder)
    return index(folder / "aerial.tif", tiny_bundle, folder / "gallery", roads=[folder / "roads.geojson"])


@pytest.fixture(scope="module")
def service(served_gallery: Gallery, tiny_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(served_gallery, tiny_bundle, tmp_path_factory.mktemp("state")) as running:
        yield running


@pytest.fixture
def client(service: Served) -> Iterator[Client]:
    with service.client() as client:
        yield client
