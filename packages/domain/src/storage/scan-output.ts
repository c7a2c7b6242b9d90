// What servers say of the folders that they offer, as their tools print it.

/** Of `showmount --no-headers --exports`: a path, which may have blanks, and who may mount it. */
export function parseExports(text: string): { path: string; options: string }[] {
  return text.split("\n").flatMap((line) => {
    const [, path, options] = /^(\/.*?)\s+(\S+)$/.exec(line.trim()) ?? [];
    return path === undefined || options === undefined ? [] : [{ path, options }];
  });
}

/** Of `smbclient --grepable --list`: kind, name and description between bars. */
export function parseShares(text: string): { share: string; description: string }[] {
  return text.split("\n").flatMap((line) => {
    const [kind, share, ...rest] = line.split("|");
    return kind === "Disk" && share !== undefined && share !== ""
      ? [{ share, description: rest.join("|").trim() }]
      : [];
  });
}
