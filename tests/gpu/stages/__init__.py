# SPDX-License-Identifier: Apache-2.0
"""gpu-check's stages, a module each: run(context) adds rows."""
