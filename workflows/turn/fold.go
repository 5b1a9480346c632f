package turn

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// fold writes the characters that some readers take for plain ones as those: full-width letters, one dot leaders, and what
// else Unicode's NFKC turns into ASCII, which the names of hosts and many disks go through. What cannot be seen is left
// out.
func fold(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsControl(r) }) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch plain, known := compatible[r]; {
		case known:
			b.WriteString(plain)
		case unicode.IsSpace(r) && r > unicode.MaxASCII:
			b.WriteByte(' ')
		case hidden(r):
		default:
			b.WriteRune(folded(r))
		}
	}
	return b.String()
}

// hidden reports whether a character shows nothing, so that some readers leave it out.
func hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// folded is fold of the characters that stand in rows as their plain ones do.
func folded(r rune) rune {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for _, row := range rows {
		if r >= row.first && r <= row.last {
			return row.plain + r - row.first
		}
	}
	switch {
	case r >= 0x1D400 && r <= 0x1D6A3: // mathematical letters
		return rune(letters[(r-0x1D400)%52])
	case r >= 0x1D7CE && r <= 0x1D7FF: // and digits
		return '0' + (r-0x1D7CE)%10
	}
	return r
}

// rows are the rows of characters that NFKC turns into plain ones in their order.
var rows = []struct{ first, last, plain rune }{
	{0xFF01, 0xFF5E, '!'},   // full width
	{0x24B6, 0x24CF, 'A'},   // circled
	{0x24D0, 0x24E9, 'a'},   // circled
	{0x1F130, 0x1F149, 'A'}, // squared
	{0x1FBF0, 0x1FBF9, '0'}, // of seven segments
	{0x2080, 0x2089, '0'},   // below the line
	{0x2074, 0x2079, '4'},   // above the line
	{0x2460, 0x2468, '1'},   // circled
}

// compatible are the other characters that NFKC turns into ASCII (UnicodeData.txt of Unicode 14), and the full stops of
// IDNA (RFC 3490, 3.1) and the slashes of best-fit code pages beside them: each with what it becomes behind it.
var compatible = pairs("" +
	"ªa ²2 ³3 ¹1 ºo ĲIJ ĳij ſs ǇLJ ǈLj ǉlj ǊNJ ǋNj ǌnj ǱDZ ǲDz ǳdz ʰh ʲj ʳr ʷw ʸy ˡl ˢs ˣx ;; ᴬA ᴮB ᴰD ᴱE ᴳG ᴴH ᴵI ᴶJ ᴷK ᴸL ᴹM ᴺN ᴼO " +
	"ᴾP ᴿR ᵀT ᵁU ᵂW ᵃa ᵇb ᵈd ᵉe ᵍg ᵏk ᵐm ᵒo ᵖp ᵗt ᵘu ᵛv ᵢi ᵣr ᵤu ᵥv ᶜc ᶠf ᶻz `` ․. ‥.. …... ‼!! ⁄/ ⁇?? ⁈?! ⁉!? ⁰0 ⁱi ⁺+ ⁼= ⁽( ⁾) ⁿn ₊+ " +
	"₌= ₍( ₎) ₐa ₑe ₒo ₓx ₕh ₖk ₗl ₘm ₙn ₚp ₛs ₜt ₨Rs ℀a/c ℁a/s ℂC ℅c/o ℆c/u ℊg ℋH ℌH ℍH ℎh ℐI ℑI ℒL ℓl ℕN №No ℙP ℚQ ℛR ℜR ℝR ℠SM ℡TEL " +
	"™TM ℤZ ℨZ KK ℬB ℭC ℯe ℰE ℱF ℳM ℴo ℹi ℻FAX ⅅD ⅆd ⅇe ⅈi ⅉj ⅠI ⅡII ⅢIII ⅣIV ⅤV ⅥVI ⅦVII ⅧVIII ⅨIX ⅩX ⅪXI ⅫXII ⅬL ⅭC ⅮD ⅯM ⅰi ⅱii " +
	"ⅲiii ⅳiv ⅴv ⅵvi ⅶvii ⅷviii ⅸix ⅹx ⅺxi ⅻxii ⅼl ⅽc ⅾd ⅿm ∕/ ∖\\ ⑩10 ⑪11 ⑫12 ⑬13 ⑭14 ⑮15 ⑯16 ⑰17 ⑱18 ⑲19 ⑳20 ⑴(1) ⑵(2) ⑶(3) ⑷(4) ⑸(5) " +
	"⑹(6) ⑺(7) ⑻(8) ⑼(9) ⑽(10) ⑾(11) ⑿(12) ⒀(13) ⒁(14) ⒂(15) ⒃(16) ⒄(17) ⒅(18) ⒆(19) ⒇(20) ⒈1. ⒉2. ⒊3. ⒋4. ⒌5. ⒍6. ⒎7. ⒏8. ⒐9. ⒑10. " +
	"⒒11. ⒓12. ⒔13. ⒕14. ⒖15. ⒗16. ⒘17. ⒙18. ⒚19. ⒛20. ⒜(a) ⒝(b) ⒞(c) ⒟(d) ⒠(e) ⒡(f) ⒢(g) ⒣(h) ⒤(i) ⒥(j) ⒦(k) ⒧(l) ⒨(m) ⒩(n) ⒪(o) ⒫(p) " +
	"⒬(q) ⒭(r) ⒮(s) ⒯(t) ⒰(u) ⒱(v) ⒲(w) ⒳(x) ⒴(y) ⒵(z) ⓪0 ⧵\\ ⧸/ ⩴::= ⩵== ⩶=== ⱼj ⱽV 。. ㉐PTE ㉑21 ㉒22 ㉓23 ㉔24 ㉕25 ㉖26 ㉗27 ㉘28 ㉙29 ㉚30 " +
	"㉛31 ㉜32 ㉝33 ㉞34 ㉟35 ㊱36 ㊲37 ㊳38 ㊴39 ㊵40 ㊶41 ㊷42 ㊸43 ㊹44 ㊺45 ㊻46 ㊼47 ㊽48 ㊾49 ㊿50 ㋌Hg ㋍erg ㋎eV ㋏LTD ㍱hPa ㍲da ㍳AU ㍴bar ㍵oV ㍶pc ㍷dm " +
	"㍸dm2 ㍹dm3 ㍺IU ㎀pA ㎁nA ㎃mA ㎄kA ㎅KB ㎆MB ㎇GB ㎈cal ㎉kcal ㎊pF ㎋nF ㎎mg ㎏kg ㎐Hz ㎑kHz ㎒MHz ㎓GHz ㎔THz ㎖ml ㎗dl ㎘kl ㎙fm ㎚nm ㎜mm ㎝cm ㎞km ㎟mm2 " +
	"㎠cm2 ㎡m2 ㎢km2 ㎣mm3 ㎤cm3 ㎥m3 ㎦km3 ㎩Pa ㎪kPa ㎫MPa ㎬GPa ㎭rad ㎰ps ㎱ns ㎳ms ㎴pV ㎵nV ㎷mV ㎸kV ㎹MV ㎺pW ㎻nW ㎽mW ㎾kW ㎿MW ㏂a.m. ㏃Bq ㏄cc ㏅cd " +
	"㏇Co. ㏈dB ㏉Gy ㏊ha ㏋HP ㏌in ㏍KK ㏎KM ㏏kt ㏐lm ㏑ln ㏒log ㏓lx ㏔mb ㏕mil ㏖mol ㏗PH ㏘p.m. ㏙PPM ㏚PR ㏛sr ㏜Sv ㏝Wb ㏿gal ꟲC ꟳF ꟴQ ﬀff ﬁfi ﬂfl ﬃffi " +
	"ﬄffl ﬅst ﬆst ﬩+ ︐, ︓: ︔; ︕! ︖? ︙... ︰.. ︳_ ︴_ ︵( ︶) ︷{ ︸} ﹇[ ﹈] ﹍_ ﹎_ ﹏_ ﹐, ﹒. ﹔; ﹕: ﹖? ﹗! ﹙( ﹚) ﹛{ ﹜} ﹟# ﹠& ﹡* ﹢+ ﹣- ﹤< ﹥> ﹦= ﹨\\ " +
	"﹩$ ﹪% ﹫@ ｡. 𐞥q 🄀0. 🄁0, 🄂1, 🄃2, 🄄3, 🄅4, 🄆5, 🄇6, 🄈7, 🄉8, 🄊9, 🄐(A) 🄑(B) 🄒(C) 🄓(D) 🄔(E) 🄕(F) 🄖(G) 🄗(H) 🄘(I) 🄙(J) 🄚(K) 🄛(L) 🄜(M) 🄝(N) " +
	"🄞(O) 🄟(P) 🄠(Q) 🄡(R) 🄢(S) 🄣(T) 🄤(U) 🄥(V) 🄦(W) 🄧(X) 🄨(Y) 🄩(Z) 🄫C 🄬R 🄭CD 🄮WZ 🅊HV 🅋MV 🅌SD 🅍SS 🅎PPV 🅏WC 🅪MC 🅫MD 🅬MR 🆐DJ")

func pairs(list string) map[rune]string {
	out := map[rune]string{}
	for _, pair := range strings.Fields(list) {
		r, size := utf8.DecodeRuneInString(pair)
		out[r] = pair[size:]
	}
	return out
}
