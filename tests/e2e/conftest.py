# SPDX-License-Identifier: Apache-2.0
def pytest_configure(config):
    config.addinivalue_line("markers", "quick: what scripts/test runs of a module that takes long")
