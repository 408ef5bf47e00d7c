/* What the stand-in has been told to do: a text file named by NVML_STANDIN, one order a line.
 *
 *   card INDEX UUID MIG          a card; MIG is -1 for "no such mode", else its number of instances
 *   fail FUNCTION CODE [FROM [UNTIL]]
 *                                calls FROM <= n < UNTIL of FUNCTION (counted from 0, over all cards) return
 *                                CODE; FUNCTION "card:INDEX" means every call on that card
 *   field ID CODE                field value ID fails with CODE
 *   value NAME V...              what NAME gives, call after call, starting over at the end
 */
#ifndef SCRIPT_H
#define SCRIPT_H

#define MAX_CARDS 8
#define NEVER 0x7fffffff

struct card {
    int known, index, mig;
    char uuid[96];
};

struct card *script_card(int index);
int script_cards(void);

/* What a call of FUNCTION (on card INDEX, or -1) returns: 0 or an NVML error. Counts the call. */
int script_result(const char *function, int index);
int script_field(int id);

/* The next value of NAME, or FALLBACK where the script says nothing. */
double script_value(const char *name, double fallback);

/* Reads the script; the first call only. */
void script_load(void);

#endif
