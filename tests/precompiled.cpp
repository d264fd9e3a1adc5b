// SPDX-License-Identifier: Apache-2.0
// A target needs a source of its own for its precompiled headers.
