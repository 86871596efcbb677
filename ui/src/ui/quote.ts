// A value in a command that somebody copies into a shell: names of files may hold anything.
export const quote = (value: string) => (/^[\w@%+=:,./~-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`);

/** A command with values in it, each quoted. Those of an address are anything that somebody put into a link. */
export const sh = (texts: TemplateStringsArray, ...values: (string | number)[]) => texts.map((text, i) => text + (i < values.length ? quote(String(values[i])) : '')).join('');
