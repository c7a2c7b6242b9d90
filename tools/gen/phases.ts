// Writes the pages of phases from their tables. A test fails when one is out of date.
import { writeFileSync } from "node:fs";
import { vcPhasesPage, vmPhasesPage } from "@gpve/domain/phase/phases-page.ts";

writeFileSync("docs/reference/vm-phases.md", vmPhasesPage());
writeFileSync("docs/reference/vc-phases.md", vcPhasesPage());
