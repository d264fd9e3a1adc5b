# SPDX-License-Identifier: Apache-2.0
from cinch_torch import main

main()
